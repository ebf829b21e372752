"""Which of many changes matter, alone and in company, and what is each one's share of the whole?"""
