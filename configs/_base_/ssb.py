# Support-Set Bottlenecks: T5-base and a CNN for words, an RNN for frame features, transformer
# pooling, and cross-captioning.  NCL's App. C states these parts and dropout .1; the width, the
# temperature of the support set and lambda (loss_weight) are our choice: there is no public code.
width = 1024
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    encoder=dict(
        type='SSBEncoder',
        text=dict(type='TransformersText', model='t5-base', dim=None),
        in_dim=512 + 2048,
        dim=width,
        dropout=0.1,
    ),
    similarity=dict(type='CosineSimilarity'),
    temperature=dict(type='Temperature', init=0.07),
    objectives=dict(
        caption=dict(
            type='CrossCaptioning',
            decoder='t5-base',
            dim=width,
            support='cross',
            temperature=0.1,
            loss_weight=10.0,
        )
    ),
)
