# CE+ (TeachText, Croitoru et al., ICCV 2021): CE on seven re-extracted experts, words as vectors of
# a fine-tuned GPT2-xl (1600).  MSVD has neither audio nor speech.
_base_ = ['ce.py']

model = dict(
    encoder=dict(
        text=dict(in_dim=1600),
        experts={
            '_delete_': True,
            'audio': 128,  # VGGish
            'imagenet.resnext101_32x48d.0': 2048,
            'imagenet.senet154.0': 2048,
            'r2p1d.r2p1d-ig65m.0': 512,
            'r2p1d.r2p1d-ig65m-kinetics.0': 512,
            'scene.densenet161.0': 2208,
            'speech': 300,  # words said, word2vec
        },
        clusters=dict(_delete_=True, audio=8, speech=19),
    )
)
