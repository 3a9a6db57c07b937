# CLIP2Video as its code trains it: the losses of both matrices at CLIP's own scale, a weight of
# CLIP that starts at tau = .01.  DVTR's .07 is stated for its debiased loss (Sec. V-A.2, Eq. 13);
# c2v_msrvtt_tau07.py has it without debiasing.  docs/dvtr.md says why.
_base_ = ['c2v_vitb16.py']

model = dict(
    losses=dict(contrastive=dict(type='ContrastiveLoss', reads=('global', 'aligned'))),
    temperature=dict(init=0.01, learnable=True),
)
