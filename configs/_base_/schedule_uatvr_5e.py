# UATVR Sec. 4.1: 5 epochs, batch 64, Adam, initial learning rate 5e-5; warm-up and cosine as its
# code.  That rate is for the new modules.  The code gives CLIP a thousandth of it in fp16; in fp32
# a hundredth, 5e-7, moves CLIP as far as 1e-6 does at batch 128 (schedule_clip_5e.py).
_base_ = ['schedule_clip_5e.py']

optim_wrapper = dict(optimizer=dict(lr=5e-5))
auto_scale_lr = dict(base_batch_size=64)
