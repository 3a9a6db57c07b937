# TeachText on CE, ActivityNet (docs/teachers.md).  The row TT-CE+ of NCL Tab. 1 has CE+, whose
# experts of this set are not known here.
_base_ = ['ce_activitynet.py']

teachers = ['gpt2-xl', 'gpt2-xl-finetuned', 'w2v']
stores = {
    side: {name: f'{_base_.store}teachers/{name}/{side}.h5' for name in teachers}
    for side in ('video', 'text')
}
train_dataloader = dict(
    dataset=dict(
        video_pipeline=[
            *_base_.known.video_pipeline,
            dict(type='LoadVectors', side='video', stores=stores['video']),
        ],
        text_pipeline=[
            *_base_.known.text_pipeline,
            dict(type='LoadVectors', side='text', stores=stores['text']),
        ],
    )
)
model = dict(
    supervision=dict(type='StoredTeachers', teachers=teachers),
    losses=dict(distillation=dict(type='DistillationLoss')),
)
