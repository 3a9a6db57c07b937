# HGR (Chen et al., CVPR 2020) as its code has it, on stored features.  Widths of the features and
# rows of the word table are the dataset's: model.encoder.{frames.in_dim,text.words}.  Its loss is
# the sum of both directions (a mean here, so loss_weight 2), each anchor against the hardest
# negative of its batch.  GloVe's vectors start the word table (model.encoder.text.pretrained, None
# for random ones): tools/dataset_converters/word_vocabulary.py numbers the words and finds them.
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='HGREncoder',
        frames=dict(type='FeatureFrames'),
        text=dict(type='WordVectors', dim=300),
        dim=1024,
        dropout=0.2,
        graph_dropout=0.5,
    ),
    similarity=dict(type='HGRSimilarity'),
    losses=dict(triplet=dict(type='RankingLoss', margin=0.2, negatives='hardest', loss_weight=2.0)),
)

# 100 epochs of batches of 64, as the frame-length paper trains everything (Sec. 4); HGR's code: 50.
# Where there is a validation set the epoch of its best rsum is tested, elsewhere the last.
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmvtr.MatrixDecayConstructor',
    optimizer=dict(type='Adam', lr=1e-4),
)
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
auto_scale_lr = dict(enable=False, base_batch_size=64)  # clips a step, over all processes
