// The reference, from openapi.json; no library.
const make = (tag, ...content) => {
  const element = document.createElement(tag);
  element.append(...content);
  return element;
};

function kind(schema, all) {
  if (!schema) return '';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (schema.anyOf) return schema.anyOf.map((one) => kind(one, all)).join(' | ');
  if (schema.enum) return schema.enum.join(' | ');
  if (schema.type === 'array') return `[${kind(schema.items, all)}]`;
  return schema.type || 'any';
}

function limits(schema) {
  const inner = [schema, ...(schema.anyOf || [])];
  const names = {minimum: 'at least', maximum: 'at most', maxLength: 'characters at most', maxItems: 'entries at most'};
  return Object.entries(names).flatMap(([key, words]) =>
    inner.filter((one) => key in one).map((one) => `${words} ${one[key]}`)).join(', ');
}

function rows(properties, required, all) {
  const table = make('table');
  for (const [name, schema] of Object.entries(properties)) {
    const words = [schema.description, limits(schema)].filter(Boolean).join('; ');
    const needed = required.includes(name) ? '' : schema.default == null ? ' ?' : ` = ${JSON.stringify(schema.default)}`;
    table.append(make('tr', make('td', name + needed), make('td', kind(schema, all)), make('td', words)));
  }
  return table;
}

function body(schema, all) {
  const name = schema?.$ref?.split('/').pop();
  const full = name ? all[name] : schema?.allOf ? all[schema.allOf[0].$ref.split('/').pop()] : schema;
  if (!full?.properties) return make('p', kind(schema, all));
  const parts = [rows(full.properties, full.required || [], all)];
  for (const found of JSON.stringify(full.properties).matchAll(/schemas\/(\w+)/g)) {
    parts.push(make('h3', found[1]), body({$ref: found[0]}, all));
  }
  return make('div', ...parts);
}

function examples(schema, all) {
  const name = JSON.stringify(schema).match(/schemas\/(\w+)/)?.[1];
  return (all[name]?.examples || []).map((one) => make('pre', JSON.stringify(one)));
}

async function begin() {
  const page = document.getElementById('reference');
  const said = await (await fetch('openapi.json')).json();
  const all = said.components?.schemas || {};
  page.append(make('p', said.info.description, ' Errors are ', make('code', '{"error": "one sentence"}'), '.'));
  for (const [path, methods] of Object.entries(said.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      page.append(make('h2', make('b', method.toUpperCase()), path), make('p', route.description || ''));
      const given = Object.fromEntries((route.parameters || []).map((one) => [one.name, {...one.schema, description: one.description}]));
      const required = (route.parameters || []).filter((one) => one.required).map((one) => one.name);
      if (Object.keys(given).length) page.append(make('h3', 'In the address'), rows(given, required, all));
      const sent = Object.entries(route.requestBody?.content || {})[0];
      if (sent) page.append(make('h3', `Body, ${sent[0]}`), body(sent[1].schema, all), ...examples(sent[1].schema, all));
      const back = route.responses?.['200']?.content?.['application/json']?.schema;
      if (back?.$ref) page.append(make('h3', 'Answer'), body(back, all));
    }
  }
}

begin();
