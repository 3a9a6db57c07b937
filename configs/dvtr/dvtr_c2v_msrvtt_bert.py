# DVTR on MSR-VTT 1k-A with BERT as the text tower, as Sec. IV-B.2 words it (CLIP2Video uses
# CLIP's).  It has not seen CLIP's space: it learns at 1e-5.
_base_ = ['../dvtr_c2v_msrvtt.py']

words = [dict(type='HFTokenize', model='bert-base-uncased', max_length=32)]
train_dataloader = dict(dataset=dict(text_pipeline=words))
test_dataloader = dict(dataset=dict(text_pipeline=words))
model = dict(
    encoder=dict(
        text=dict(_delete_=True, type='TransformersText', model='bert-base-uncased', dim=512)
    )
)
rates = {'encoder.text': dict(lr_mult=0.1), 'encoder.text.text_projection': dict(lr_mult=1.0)}
optim_wrapper = dict(paramwise_cfg=dict(custom_keys=rates))
