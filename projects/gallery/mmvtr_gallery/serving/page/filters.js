// Fields of the filter, one for each column that the gallery has.
import {$, make, short} from './api.js';

const OWN = ['start', 'end', 'sigma'];
let changed = () => {};

export function build(columns, onChange) {
  changed = onChange;
  const kept = value();
  const names = Object.keys(columns).filter((name) => !['added', 'bias'].includes(name));
  const fields = names.flatMap((name) => field(name, columns[name]) || []);
  $('fields').replaceChildren(...fields);
  $('filters').hidden = !fields.length;
  set(kept);
}

function field(name, column) {
  const numbers = ['int', 'float'].includes(column.type);
  if (numbers ? column.min === null || column.min === column.max : !column.distinct) return null;
  const said = make('span', {textContent: OWN.includes(name) ? `${name} (${name === 'sigma' ? 'σ' : 's'})` : name});
  const inner = numbers ? bounds(name, column) : [column.distinct > column.values.length ? typed(name, column) : choice(name, column)];
  return make('label', {className: 'column'}, said, ...inner);
}

function bounds(name, column) {
  return ['min', 'max'].map((key) => {
    const input = make('input', {type: 'number', step: column.type === 'int' ? 1 : 'any', placeholder: shown(column[key]), onchange: () => changed()});
    Object.assign(input.dataset, {name, key, type: column.type});
    input.setAttribute('aria-label', `${name}, ${key === 'min' ? 'at least' : 'at most'}`);
    return input;
  });
}

const shown = (x) => Number.isInteger(x) ? String(x) : x.toPrecision(3);

function choice(name, column) {
  const select = make('select', {onchange: () => changed()}, make('option', {value: '', textContent: 'any'}));
  for (const [value, count] of column.values) {
    select.append(make('option', {value: JSON.stringify(value), textContent: `${short(String(value), 40)} (${count})`}));
  }
  Object.assign(select.dataset, {name, key: 'value', type: 'json'});
  return select;
}

function typed(name, column) {
  const id = `values-${name}`;
  const list = make('datalist', {id}, ...column.values.map(([value]) => make('option', {value})));
  const input = make('input', {type: 'text', dir: 'auto', placeholder: 'exactly', onchange: () => changed()});
  input.setAttribute('list', id);
  Object.assign(input.dataset, {name, key: 'value', type: 'str'});
  return make('span', {}, input, list);
}

const inputs = () => [...$('fields').querySelectorAll('[data-name]')];

// What the fields say, as the service reads it; null: no condition.
export function value() {
  const filter = {};
  for (const input of inputs()) {
    const {name, key, type} = input.dataset;
    if (input.value === '') continue;
    if (key === 'value') filter[name] = type === 'json' ? JSON.parse(input.value) : input.value;
    else filter[name] = {...filter[name], [key]: Number(input.value)};
  }
  const count = Object.keys(filter).length;
  $('active').textContent = count ? `(${count})` : '';
  return count ? filter : null;
}

export function set(filter) {
  for (const input of inputs()) {
    const {name, key, type} = input.dataset, wanted = filter?.[name];
    const found = key === 'value' ? wanted : wanted?.[key];
    if (found === undefined || found === null) input.value = '';
    else input.value = type === 'json' ? JSON.stringify(found) : found;
  }
  value();
}
