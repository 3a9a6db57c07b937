# UATVR over CLIP ViT-B/32 on MSR-VTT 1k-A, post-processed (UATVR Tab. 6, double dagger).
_base_ = ['uatvr_vitb32_msrvtt.py', '_base_/uatvr_postprocessed.py']
