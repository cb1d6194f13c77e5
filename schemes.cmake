# One row per scheme: the rooms it has, and why it lacks one. `ls <room>/<stem>*` finds the rest.
#
#                stem        reference  plain  fixtures  properties  bugs  kernel
posproof_scheme(sinusoidal   yes        yes    yes       yes         yes   yes)
posproof_scheme(learned      yes        yes    yes       yes         yes   yes)
posproof_scheme(shaw         yes        yes    yes       yes         yes   yes)
posproof_scheme(rope         yes        yes    yes       yes         yes   yes)
posproof_scheme(alibi        yes        yes    yes       yes         yes   yes)
posproof_scheme(t5           yes        yes    yes       yes         yes   yes)
posproof_scheme(nope         yes        "nothing to compute" "its cases are attention's" yes yes "nothing to compute")
posproof_scheme(attention    yes        yes    yes       yes         yes   "the kernels are of the encodings")
