"""How small may a setting be, and from where on does more of it gain nothing?"""
