// HTML as a tagged template that escapes its parts: no external text becomes markup. And tables.

/** Safe markup, created only by `html` and `constant`. */
export interface Html {
  readonly markup: string
}

/** A part of a template. Undefined, null and false render nothing; a list has no separators. */
export type Part = string | number | undefined | null | false | Html | readonly Part[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Control, format (bidirectional overrides, zero width) and separator characters, which could disguise a text. */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Text for element content and quoted attributes. */
function escapeHtml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(invisible, '\ufffd')
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? '')
}

function isList(part: Part): part is readonly Part[] {
  return Array.isArray(part)
}

function render(part: Part): string {
  if (part === undefined || part === null || part === false) return ''
  if (isList(part)) return part.map(render).join('')
  return typeof part === 'object' ? part.markup : escapeHtml(String(part))
}

/** Inserts escaped parts into markup. Attributes need double quotes. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let markup = strings[0] ?? ''
  for (const [index, part] of parts.entries()) markup += render(part) + (strings[index + 1] ?? '')
  return { markup }
}

/** Markup that is safe because it is a constant of this program. */
export function constant(markup: string): Html {
  return { markup }
}

export function section(id: string, title: string, body: Part): Html {
  return html`<section class="card" aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${body}
  </section>`
}

export interface Column {
  name: string
  align?: 'right'
}

/**
 * A row with an undefined first cell shares the first cell of the row above. Roles are explicit: small screens show the table
 * as blocks, but screen readers still see a table.
 */
export function table(caption: Part, columns: readonly Column[], rows: readonly (readonly Part[])[]): Html {
  const title = ({ name }: Column): string => name.charAt(0).toUpperCase() + name.slice(1)
  const kind = ({ align }: Column): Part => align === 'right' && constant('class="right"')
  const head = columns.map((column) => html`<th role="columnheader" scope="col" ${kind(column)}>${title(column)}</th>`)
  /** Number of rows that share this row's first cell. */
  const height = (row: number): number => {
    const next = rows.findIndex(([first], index) => index > row && first !== undefined)
    return (next < 0 ? rows.length : next) - row
  }
  const cell = (part: Part, index: number, row: number): Part => {
    const column = columns[index] ?? { name: '' }
    if (index === 0)
      return part !== undefined && html`<th role="rowheader" scope="row" rowspan="${height(row)}">${part}</th>`
    return html`<td role="cell" data-label="${title(column)}" ${kind(column)}><span>${part}</span></td>`
  }
  const body = rows.map(
    (row, number) =>
      html`<tr role="row">
        ${row.map((part, index) => cell(part, index, number))}
      </tr>`,
  )
  return html`<table role="table">
    <caption>
      ${caption}
    </caption>
    <thead role="rowgroup">
      <tr role="row">
        ${head}
      </tr>
    </thead>
    <tbody role="rowgroup">
      ${body}
    </tbody>
  </table>`
}
