# GMMFormer on TVR as its code has it: the Gaussian windows over frames span the padding of a batch,
# so that a score depends on the longest video beside its own.  Official weights need it.
_base_ = ['../gmmformer_tvr_i3d.py']

model = dict(encoder=dict(padded_windows=True))
