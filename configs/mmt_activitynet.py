# MMT on ActivityNet paragraphs (DVTR Tab. VI), from the audio and motion features that HiT has.
# Ours: 64 words, 768 seconds in the table of times, as many steps as on MSR-VTT.
_base_ = ['_base_/default_runtime.py', '_base_/activitynet_experts.py', '_base_/mmt.py']

words = [dict(type='HFTokenize', model='bert-base-cased', max_length=64)]
train_dataloader = dict(batch_size=32, dataset=dict(text_pipeline=words))
test_dataloader = dict(dataset=dict(text_pipeline=words))
model = dict(encoder=_base_.rows)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=162, val_interval=1)
