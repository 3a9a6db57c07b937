"""The readers of published judgments of images."""

import pytest
from study_parts import image_judgments


def triples(pairs):
    return sorted(zip(pairs.texts, pairs.videos, pairs.values.tolist()))


#: Reader, a small file of the format, what it says, and a bad line with its error.
FORMATS = dict(
    read_flickr8k_crowd=(
        'a.jpg\ta.jpg#2\t1\t3\t0\na.jpg\tb.jpg#2\t0.333333333333333\t1\t2\n',
        [('a.jpg#2', 'a.jpg', 1.0), ('b.jpg#2', 'a.jpg', 1 / 3)],
        'a.jpg\ta.jpg#2\t1\t1\t2',
        'a share of yes',
    ),
    read_flickr8k_expert=(
        'a.jpg\tb.jpg#2\t1\t1\t4\n',
        [('b.jpg#2', 'a.jpg', 2.0)],
        'a.jpg\tb.jpg#2\t1\t1\t5',
        'three ratings of 1 to 4',
    ),
    read_crisscrossed=(
        'caption,image,agg_score,sampling_method\n'
        'COCO_val2014:sentid:0731,COCO_val2014_000000365325.jpg,2.2,c2i_intrasim\n',
        [('731', '365325', 2.2)],
        'caption,image,agg_score\nsentid:1,COCO_val2014_000000365325.jpg,2.2',
        'an id COCO_',
    ),
    read_eccv_caption=(
        '{"38": [179765, 12], "9": [12]}',
        [('38', '12', 1.0), ('38', '179765', 1.0), ('9', '12', 1.0)],
        '{"38": []}',
        'a list of ids that is not empty',
    ),
)


@pytest.mark.parametrize('name', FORMATS)
def test_formats(tmp_path, name):
    good, expected, bad, message = FORMATS[name]
    reader, path = getattr(image_judgments, name), tmp_path / 'file'
    path.write_text(good)
    assert triples(reader(path)) == expected
    path.write_text(bad)
    with pytest.raises(ValueError, match=message):
        reader(path)


def test_image_queries_of_eccv(tmp_path):
    (tmp_path / 'file').write_text('{"12": [38]}')
    pairs = image_judgments.read_eccv_caption(tmp_path / 'file', query='video')
    assert triples(pairs) == [('38', '12', 1.0)]


@pytest.mark.parametrize(
    'name, file, count, least, right',
    [
        ('read_flickr8k_crowd', 'flickr8k/CrowdFlowerAnnotations.txt', 47830, 1, 1323),
        ('read_flickr8k_expert', 'flickr8k/ExpertAnnotations.txt', 5822, 3, 623),
        ('read_crisscrossed', 'cxc/sits_test.csv', 44833, 3, 35585),
        ('read_eccv_caption', 'coco/original_caption_to_image.json', 25000, 1, 25000),
    ],
)
def test_published_files(shared, name, file, count, least, right):
    pairs = getattr(image_judgments, name)(shared / 'data/human_judgments' / file)
    assert (len(pairs.values), (pairs.values >= least).sum()) == (count, right)
