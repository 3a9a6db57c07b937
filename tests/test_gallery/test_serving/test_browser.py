"""A real browser searches, sees film strips, switches, and plays at the moment."""

from __future__ import annotations

import shutil
import tempfile
import time

import pytest

selenium = pytest.importorskip('selenium', reason='a browser is driven by selenium')
pytest.importorskip('fastapi', reason="the service is an extra: pip install '.[serve]'")
pytest.importorskip('faiss', reason="a store in memory is an extra: pip install '.[index]'")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

from mmvtr.gallery.serving.gallery import Gallery  # noqa: E402
from services import served  # noqa: E402

FLAGS = (
    'headless', 'no-sandbox', 'disable-gpu', 'disable-quic', 'no-first-run',
    'disable-background-networking', 'disable-component-update', 'disable-sync',
)  # fmt: skip


@pytest.fixture
def browser():
    chromium, driver = shutil.which('chromium'), shutil.which('chromedriver')
    if not (chromium and driver):
        pytest.skip('there is no chromium with its chromedriver')
    with tempfile.TemporaryDirectory() as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f'user-data-dir={folder}', 'window-size=1100,900'):
            options.add_argument(f'--{flag}')
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        window = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield window
        finally:
            window.quit()


def until(condition, seconds=30):
    """What a condition gives as soon as that is something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError('it did not become true')


@pytest.mark.nightly
def test_a_browser(browser, place):
    gallery = Gallery.open(place)
    with served(gallery) as client:
        browser.get(f'http://127.0.0.1:{client.port}/')
        find = lambda css: browser.find_elements(By.CSS_SELECTOR, css)  # noqa: E731
        until(lambda: find('#size')[0].text == '7 items')
        find('#text')[0].send_keys('hello\n')
        until(lambda: len(find('.hit')) == 7)
        pictures = 'return [...document.images].every((x) => x.complete && x.naturalWidth > 0)'
        until(lambda: browser.execute_script(pictures))
        until(lambda: len([x for x in find('.at') if x.is_displayed()]) == 7)

        def shown():
            moved = (By.CLASS_NAME, 'moved')
            return [(x.get_attribute('data-id'), x.find_element(*moved).text) for x in find('.hit')]

        debiased = shown()
        best = client.search(text='hello', k=7)['hits']
        assert [name for name, _ in debiased] == [hit['id'] for hit in best]
        find('.switch label')[1].click()
        until(lambda: shown() != debiased)
        raw = client.search(text='hello', k=7, transform=False)['hits']
        assert [name for name, _ in shown()] == [hit['id'] for hit in raw]
        ranks = {name: rank for rank, (name, _) in enumerate(debiased, 1)}
        for rank, (name, words) in enumerate(shown(), 1):
            place = 'same rank' if ranks[name] == rank else f'from {ranks[name]}'
            assert place in words
        find('.strip')[0].click()
        now = 'return document.getElementById("video").currentTime'
        moment = client('POST', '/moment', dict(id=raw[0]['id'], text='hello'))[2]
        until(lambda: browser.execute_script(now) > moment['begin'])
        find('#close')[0].click()
        assert not [x for x in browser.get_log('browser') if x['level'] == 'SEVERE']
        find('#text')[0].clear()
        find('#text')[0].send_keys('x' * 1001 + '\n')
        until(lambda: 'at most 1000 characters' in find('#message')[0].text)
        assert find('#message')[0].get_attribute('role') == 'alert' and not find('.hit')
        browser.get(f'http://127.0.0.1:{client.port}/docs')
        until(lambda: 'POST/search' in [x.text for x in find('h2')])
        loaded = 'return performance.getEntriesByType("resource").map((x) => new URL(x.name).host)'
        assert set(browser.execute_script(loaded)) == {f'127.0.0.1:{client.port}'}
