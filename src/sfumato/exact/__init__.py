"""How randomness, arithmetic and secrecy stay exact.

This room exists so that no other room ever rounds where a guarantee is at stake. `coins` is the only maker of
random bits; `samplers` turns them into the exact laws of Canonne, Kamath and Steinke (2020, algorithms 1-3);
`numbers` bounds exp and log from both sides with fractions; `secret` seals an exact answer until the ledger
has stored its noisy release.

It rests on: von Neumann (1951) for Bernoulli(exp(-x)) from alternating series; Canonne, Kamath and Steinke
(2020) for the discrete Laplace and Gaussian from rational coins.
"""
