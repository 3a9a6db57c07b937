# DVTR on MSR-VTT 1k-A by Algorithm 1 with its line 7: the losses of the uncertainty module (Eq. 8,
# 11) move the encoders, too, in the dose that the weights give.  K of Eq. 8 (Tab. XI) says
# something only here.
_base_ = ['../dvtr_c2v_msrvtt.py']

model = dict(detach_heads=False, supervision=dict(match_weight=0.1, align_weight=0.1))
