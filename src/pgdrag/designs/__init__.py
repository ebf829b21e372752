"""Which treatments next, and what did they show? One file or folder a design, with its parameters and report section.

A design asks for the next block of treatments and receives the results, so that fixed and adaptive
designs look alike to the laboratory, which adds replicates, order, seeds and storage. It knows no clock,
no server and no journal. It is registered by being a concrete subclass of `Design` in a module of this
folder.
"""

from pgdrag.model.design import Design, DesignParameters, OneBlock, all_designs

__all__ = ["Design", "DesignParameters", "OneBlock", "all_designs"]
