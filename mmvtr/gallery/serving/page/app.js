// The page: asks /search, shows film strips, plays at the moment. No library, no build step.
const $ = (id) => document.getElementById(id);
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const HITS = 12, FRAMES = 6;
let asked = null;      // what is shown: {text}, {like} or {video}
let health = {};
let underway = null;   // aborts the requests of the last search
let moments = new Map();

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The service does not answer. Is it still running?');
  }
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || `The service answers ${answer.status}.`);
  return said;
}

const post = (path, body, signal) => ask(path, {
  method: 'POST', headers: {'Content-Type': 'application/json'},
  body: JSON.stringify(body), signal,
});

function tell(title, words, kind = '') {
  const place = $('message'), strong = document.createElement('strong');
  strong.textContent = title;
  place.replaceChildren(strong, words[0].toUpperCase() + words.slice(1));
  place.className = kind;
  place.setAttribute('role', kind === 'error' ? 'alert' : 'note');
  place.hidden = false;
}

async function begin() {
  try {
    health = await ask('health');
  } catch (error) {
    tell('Nothing to search', error.message, 'error');
    return;
  }
  const count = health.items.toLocaleString('en');
  $('size').textContent = `${count} ${health.items === 1 ? 'item' : 'items'}`;
  $('note').textContent = health.note || '';
  $('switch').hidden = !health.transform;
  if (!health.items) {
    tell('The gallery is empty', 'Add videos, and they can be found here.');
    return;
  }
  for (const text of health.examples) {
    const chip = document.createElement('button');
    chip.type = 'button';
    chip.textContent = text;
    chip.onclick = () => { $('text').value = text; search({text}); };
    $('examples').append(chip);
  }
  $('examples').hidden = !health.examples.length;
  $('bar').hidden = false;
  tell('Say what happens', 'The videos that fit best come first, each with the moment that fits.');
  const text = new URLSearchParams(location.search).get('q');
  if (text) { $('text').value = text; search({text}); }
}

async function search(query) {
  underway?.abort();
  const {signal} = underway = new AbortController();
  const sameQuery = JSON.stringify(query) === JSON.stringify(asked) && !query.video;
  if (!sameQuery) moments = new Map();
  const transform = Boolean(health.transform) && document.querySelector('[name=transform]:checked').value === 'yes';
  const k = Math.min(HITS, health.items);
  document.body.classList.add('busy');
  try {
    let found;
    if (query.video) {
      const options = new URLSearchParams({k, transform, compare: Boolean(health.transform)});
      found = await ask(`search/video?${options}`, {method: 'POST', body: query.video, signal});
    } else {
      found = await post('search', {...query, k, transform, compare: Boolean(health.transform)}, signal);
    }
    asked = query;
    if (query.text) history.replaceState(null, '', `?${new URLSearchParams({q: query.text})}`);
    show(found, query);
    document.body.classList.add('searched');
    if (query.text) mark(query.text, signal);
  } catch (error) {
    if (error.name === 'AbortError') return;
    asked = null;
    $('results').replaceChildren();
    $('general').hidden = $('cut').hidden = true;
    $('said').textContent = '';
    tell('That did not work', error.message, 'error');
  } finally {
    if (underway.signal === signal) document.body.classList.remove('busy');
  }
}

function show(found, query) {
  $('message').hidden = true;
  const about = query.text ? `“${query.text}”` : query.like ? `videos like ${query.like}` : query.video.name;
  const moved = found.hits.filter((hit) => health.transform && hit.moved !== hit.rank).length;
  const other = found.transform ? 'raw scores' : 'debiased scores';
  const movement = health.transform ? ` · ${moved} of ${found.hits.length} stand elsewhere by ${other}` : '';
  $('said').textContent = `${about} · ${found.ms.toFixed(0)} ms${movement}`;
  sayCut(found);
  sayGeneral(found);
  const before = new Map([...$('results').children].map((li) => [li.dataset.id, li]));
  const places = new Map([...before].map(([id, li]) => [id, li.getBoundingClientRect()]));
  const items = found.hits.map((hit) => fill(before.get(hit.id) || made(), hit, found));
  $('results').replaceChildren(...items);
  if (!items.length) tell('Nothing fits', 'No video of the gallery passes the filter.');
  if (!calm.matches) items.forEach((li) => slide(li, places.get(li.dataset.id)));
}

function sayCut(found) {
  const place = $('cut');
  place.hidden = !found.cut;
  if (found.cut) place.textContent = `The model reads ${found.cut.read} tokens of a text, and this query has ${found.cut.of}: its end was not searched for.`;
}

function sayGeneral(found) {
  const place = $('general');
  place.hidden = found.sigma === null;
  if (place.hidden) return;
  const sigma = `σ ${found.sigma.toPrecision(3)}`;
  const share = found.wider_than;
  if (share === null) place.textContent = `Uncertainty of the query: ${sigma}.`;
  else if (share >= 0.8) place.textContent = `This query is general: many videos may fit it. Its ${sigma} is wider than that of ${Math.round(100 * share)} % of the known texts.`;
  else place.textContent = `Uncertainty of the query: ${sigma}, wider than that of ${Math.round(100 * share)} % of the known texts.`;
}

const made = () => $('hit').content.firstElementChild.cloneNode(true);

function fill(li, hit, found) {
  const part = (name) => li.querySelector(`.${name}`);
  const fresh = li.dataset.id === undefined;
  li.dataset.id = hit.id;
  part('rank').textContent = hit.rank;
  part('name').textContent = hit.id;
  part('name').title = hit.file || hit.id;
  part('score').textContent = hit.score.toFixed(3);
  const sign = hit.bias < 0 ? '−' : '+';
  const sum = found.transform
    ? `raw ${hit.raw.toFixed(3)} ${sign} bias ${Math.abs(hit.bias).toFixed(3)}`
    : health.transform ? `bias ${sign}${Math.abs(hit.bias).toFixed(3)} left out` : '';
  const p = hit.p_match === null ? '' : `P(match) ${hit.p_match.toFixed(2)}`;
  part('sum').textContent = [sum, p].filter(Boolean).join(' · ');
  part('sigma').textContent = hit.sigma === null ? '' : `σ ${hit.sigma.toPrecision(2)}`;
  sayMoved(part('moved'), hit, found.transform);
  const strip = part('strip');
  strip.setAttribute('aria-label', `Play ${hit.id} at the moment that fits`);
  if (fresh) {
    const picture = strip.querySelector('img');
    if (hit.file) picture.src = `thumb?${new URLSearchParams({id: hit.id, frames: FRAMES})}`;
    else strip.classList.add('none');
    picture.onerror = () => strip.classList.add('none');
    strip.disabled = !hit.file;
    part('like').onclick = () => { $('text').value = ''; search({like: hit.id}); };
  }
  strip.onclick = () => play(hit);
  place(li, hit.id);
  return li;
}

function sayMoved(place, hit, transform) {
  place.className = 'moved';
  place.textContent = '';
  if (!health.transform) return;
  const other = transform ? 'raw' : 'debiased';
  if (hit.moved === null) {
    place.textContent = `↑ from beyond the 100th ${other}`;
    place.classList.add('up');
  } else if (hit.moved !== hit.rank) {
    const up = hit.moved > hit.rank;
    place.textContent = `${up ? '↑' : '↓'} from ${hit.moved}${suffix(hit.moved)} ${other}`;
    place.classList.add(up ? 'up' : 'down');
  } else {
    place.textContent = `same rank ${other}`;
  }
}

function suffix(n) {
  const rest = n % 100 > 10 && n % 100 < 14 ? 0 : n % 10;
  return ['th', 'st', 'nd', 'rd'][rest] || 'th';
}

function slide(li, from) {
  if (!from) { li.animate([{opacity: 0}, {opacity: 1}], {duration: 250}); return; }
  const to = li.getBoundingClientRect();
  const [x, y] = [from.left - to.left, from.top - to.top];
  if (x || y) li.animate([{transform: `translate(${x}px, ${y}px)`}, {transform: 'none'}], {duration: 420, easing: 'cubic-bezier(.2, .8, .2, 1)'});
}

// One after the other: a moment decodes a video, and a new search comes first.
async function mark(text, signal) {
  for (const li of [...$('results').children]) {
    if (signal.aborted) return;
    const id = li.dataset.id;
    if (li.querySelector('.strip').disabled) continue;
    try {
      if (!moments.has(id)) moments.set(id, await post('moment', {id, text}, signal));
    } catch (error) {
      if (error.name === 'AbortError') return;
      moments.set(id, {begin: null});
    }
    place(li, id);
  }
}

function place(li, id) {
  const at = li.querySelector('.at'), moment = moments.get(id);
  at.hidden = !moment || moment.begin === null;
  if (at.hidden) return;
  const length = moment.item_end - moment.item_begin;
  at.style.left = `${100 * (moment.begin - moment.item_begin) / length}%`;
  at.style.width = `${100 * (moment.end - moment.begin) / length}%`;
}

let startsAt = 0;

async function play(hit) {
  const video = $('video');
  $('playing').textContent = hit.id;
  $('when').textContent = '';
  startsAt = hit.start ?? 0;
  $('player').showModal();
  if (asked?.text && !moments.has(hit.id)) {
    const found = await post('moment', {id: hit.id, text: asked.text}).catch(() => ({begin: null}));
    moments.set(hit.id, found);
  }
  const moment = moments.get(hit.id);
  if (moment && moment.begin !== null) {
    startsAt = moment.begin;
    $('when').textContent = `fits best at ${clock(moment.begin)} to ${clock(moment.end)}`;
  } else if (hit.start !== null) {
    $('when').textContent = `begins at ${clock(hit.start)}`;
  }
  video.onloadedmetadata = jump;
  video.onerror = () => { $('when').textContent = 'This browser cannot play the file.'; };
  video.src = `video?${new URLSearchParams({id: hit.id})}`;
}

function jump() {
  const video = $('video');
  video.currentTime = startsAt;
  video.play().catch(() => {});  // a browser may want a click first
}

function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, '0')}`;
}

$('form').onsubmit = (event) => {
  event.preventDefault();
  const text = $('text').value.trim();
  if (text) search({text});
};
for (const input of document.querySelectorAll('[name=transform]')) {
  input.onchange = () => { if (asked) search(asked); };
}
$('file').onchange = () => {
  const [video] = $('file').files;
  if (video) { $('text').value = ''; search({video}); }
  $('file').value = '';
};
$('again').onclick = jump;
$('close').onclick = () => $('player').close();
$('player').onclose = () => { $('video').removeAttribute('src'); $('video').load(); };
$('player').onclick = (event) => { if (event.target === $('player')) $('player').close(); };
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.matches('input') && !$('player').open) {
    event.preventDefault();
    $('text').focus();
    $('text').select();
  }
});
begin();
