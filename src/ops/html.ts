// HTML as a tagged template that escapes its parts, so that no foreign text becomes markup; and tables made of it.

/** Markup that may stand in a page as it is. Made only by `html` and `constant`. */
export interface Html {
  readonly markup: string
}

/** A part of a template. Undefined, null and false leave nothing; a list stands without separators. */
export type Part = string | number | undefined | null | false | Html | readonly Part[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Controls, format characters (bidirectional overrides, zero width) and separators: they would show another text. */
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Text for element content and for attributes in quotes. */
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

/** Puts escaped parts into markup. Attributes must stand in double quotes. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let markup = strings[0] ?? ''
  for (const [index, part] of parts.entries()) markup += render(part) + (strings[index + 1] ?? '')
  return { markup }
}

/** Markup that is known to be safe: a constant of this program. */
export function constant(markup: string): Html {
  return { markup }
}

/** A card with a heading. */
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
 * A row whose first cell is undefined belongs to the one before it, and shares its first cell. Roles are given: a table that a small
 * screen shows as a list of blocks stays a table to a screen reader.
 */
export function table(caption: Part, columns: readonly Column[], rows: readonly (readonly Part[])[]): Html {
  const title = ({ name }: Column): string => name.charAt(0).toUpperCase() + name.slice(1)
  const kind = ({ align }: Column): Part => align === 'right' && constant('class="right"')
  const head = columns.map((column) => html`<th role="columnheader" scope="col" ${kind(column)}>${title(column)}</th>`)
  /** How many rows the first cell of this one stands for. */
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
