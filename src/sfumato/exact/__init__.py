"""How randomness, arithmetic and secrecy stay exact.

This room exists so that no other room ever rounds where a guarantee is at stake. `coins` is the only maker of
random bits; `samplers` turns them into the exact laws of Canonne, Kamath and Steinke (2020, algorithms 1-3)
and `bulk` draws the same laws by the million; `gaussian` sums the discrete Gaussian; `numbers` bounds exp and
log from both sides with fractions; `secret` seals an exact answer until the ledger has stored its noisy
release.

It rests on: von Neumann (1951) for Bernoulli(exp(-x)) from alternating series; Canonne, Kamath and Steinke
(2020) for the discrete Laplace and Gaussian from rational coins; inversion with lazily drawn bits (Knuth and
Yao, 1976); Euler and Maclaurin's formula with its remainder.
"""
