# MMT on MSR-VTT 1k-A with seven experts, from stored features.
# The dataset's (features published with Collaborative Experts and MMT; a store of another width is
# refused): the experts, their networks and widths.  The paper's: 30 rows an expert, 30 words, 50
# epochs of 1,000 steps, which are 9 passes over the 180,000 captions (50,625 steps).  Ours, not
# certain: a row every second, and that rows of faces, OCR and speech have no times.
_base_ = ['default_runtime.py', 'msrvtt_1ka.py', 'mmt.py']

store = 'data/msrvtt/features/'
experts = dict(
    appearance=dict(path=store + 'appearance.h5', dim=2048),  # SENet-154, ImageNet
    audio=dict(path=store + 'audio.h5', dim=128),  # VGGish
    face=dict(path=store + 'face.h5', dim=512, seconds=None),  # ResNet50, VGGFace2
    motion=dict(path=store + 'motion.h5', dim=1024),  # S3D, Kinetics
    ocr=dict(path=store + 'ocr.h5', dim=300, seconds=None),  # words read, word2vec
    scene=dict(path=store + 'scene.h5', dim=2208),  # DenseNet-161, Places365
    speech=dict(path=store + 'speech.h5', dim=300, seconds=None),  # words said, word2vec
)
frames = [dict(type='LoadExperts', experts=experts, max_tokens=30)]
words = [dict(type='HFTokenize', model='bert-base-cased', max_length=30)]
# Classes of verbs and nouns, for nDCG (Tab. 7).
known = dict(
    video_pipeline=frames,
    text_pipeline=words,
    records=dict(classes=dict(type='CaptionClasses', parser='rules')),
)
train_dataloader = dict(batch_size=32, dataset=known)
test_dataloader = dict(dataset=known)
test_evaluator = [dict(type='mmvtr.RetrievalMetric'), dict(type='mmvtr.RelevanceMetric')]

model = dict(encoder=dict(experts={name: expert['dim'] for name, expert in experts.items()}))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=9, val_interval=1)
# The paper validates; 1k-A has nothing to validate on, so the last epoch is tested.
