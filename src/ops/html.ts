// HTML as a tagged template that escapes whatever is put into it: no text of a stranger becomes markup by being forgotten.

/** Markup that may stand in a page as it is. Made only by `html`. */
export interface Html {
  readonly markup: string
}

/** What may be put into a template. Undefined, null and false leave nothing; a list stands without separators. */
export type Part = string | number | undefined | null | false | Html | readonly Part[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Controls, format characters (bidirectional overrides, zero width) and separators: they would show something else than there is. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Text for element content and for attributes in quotes. */
export function escapeHtml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(unseen, '\ufffd')
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
