# UATVR over CLIP ViT-B/16 on MSR-VTT 1k-A, post-processed (UATVR Tab. 6, double dagger).
_base_ = ['uatvr_vitb16_msrvtt.py', '_base_/uatvr_postprocessed.py']

# With --best-on-test the epoch counts that is best after dual softmax, which UATVR's code has.
default_hooks = dict(checkpoint=dict(save_best='dual_softmax_oracle/retrieval/rsum'))
