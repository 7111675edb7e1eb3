"""What a damaged .npy file makes numpy raise.

A header is a Python literal that numpy reads with the parser of Python itself, and the shape in it
goes into the arithmetic of a memory map: neither has one class of errors.
"""

import tokenize

NPY_DAMAGE = (
    OSError,
    ValueError,  # a wrong magic, a shape that does not fit the bytes, an array of objects
    EOFError,
    tokenize.TokenError,  # a bracket that does not close
    SyntaxError,
    TypeError,
    LookupError,
    ArithmeticError,  # a shape beyond every integer of C
    RecursionError,
    MemoryError,
)
