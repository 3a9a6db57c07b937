// The keyboard; a list of it is in the dialog "help".
import {$} from './api.js';

const open = () => document.querySelector('dialog[open]');
const strips = () => [...document.querySelectorAll('#results .strip:not(:disabled)')];

function step(by) {
  const all = strips(), at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  next?.focus();
  next?.closest('li').scrollIntoView({block: 'nearest'});
}

// A button of the video that has the focus.
function press(name) {
  const button = document.activeElement.closest('li.hit')?.querySelector(name);
  if (button && !button.hidden) button.click();
}

function other() {
  const raw = document.querySelector('[name=transform]:not(:checked)');
  if (!$('switch').hidden && !$('bar').hidden) raw.click();
}

const KEYS = {
  '/': () => { $('text').focus(); $('text').select(); },
  'j': () => step(1),
  'k': () => step(-1),
  's': () => press('.like'),
  'y': () => press('.yes'),
  'x': () => press('.no'),
  'r': other,
  'b': () => $('view').click(),
  'f': () => { $('filters').open = !$('filters').open; },
  'n': () => ($('more').hidden ? $('next') : $('more')).click(),
  'p': () => $('previous').click(),
  '?': () => $('help').showModal(),
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || open()) return;
  if (event.target.matches('input, select, textarea')) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
$('keys').onclick = () => $('help').showModal();
$('known').onclick = () => $('help').close();
