// Plays a file, from the moment on that fits.
import {$, clock, place, post} from './api.js';

let startsAt = 0;
let turn = 0;  // larger after every opening and closing: what is awaited may come too late

// `moments`: id -> what /moment has said of the text.
export async function play(item, text, moments) {
  const video = $('video');
  $('playing').textContent = item.id;
  $('when').textContent = '';
  startsAt = item.start ?? 0;
  const mine = turn += 1;
  $('player').showModal();
  if (text && !moments.has(item.id)) {
    const found = await post('moment', {id: item.id, text}).catch(() => ({start: null}));
    moments.set(item.id, found);
    if (mine !== turn) return;
  }
  const moment = moments.get(item.id);
  if (moment && moment.start !== null) {
    startsAt = moment.start;
    $('when').textContent = `fits best at ${clock(moment.start)} to ${clock(moment.end)}`;
  } else if (item.start !== null) {
    $('when').textContent = `begins at ${clock(item.start)}`;
  }
  video.onloadedmetadata = jump;
  video.onerror = () => { $('when').textContent = 'This browser cannot play the file.'; };
  try {
    const url = await place(`video?${new URLSearchParams({id: item.id})}`, item.quarantined);
    if (mine === turn) video.src = url;
  } catch {
    if (mine === turn) video.onerror();
  }
}

function jump() {
  const video = $('video');
  video.currentTime = startsAt;
  video.play().catch(() => {});  // a browser may want a click first
}

$('again').onclick = jump;
$('close').onclick = () => $('player').close();
$('player').onclose = () => { turn += 1; $('video').removeAttribute('src'); $('video').load(); };
$('player').onclick = (event) => { if (event.target === $('player')) $('player').close(); };
