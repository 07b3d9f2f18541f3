// Texts that are hardly meant as they stand: quotes that became part of a value, placeholders, invisible characters.

/**
 * What is probably wrong with a value, as a part of a sentence; undefined when nothing is. It repeats a placeholder, and of a
 * secret nothing.
 */
export function misreadOf(text: string, { secret }: { secret: boolean }): string | undefined {
  if (/^(["'`])[^]*\1$/.test(text))
    return 'has quotes that are part of the value, as docker --env-file keeps them: write it without them'
  const [placeholder] = /\$\{\w[^}]*\}|\$\(\w+\)|\{\{.*\}\}|^<[^<>]+>$/.exec(text) ?? []
  if (placeholder !== undefined) {
    const shown = secret ? 'a placeholder such as ${NAME}' : `the placeholder ${placeholder.slice(0, 60)}`
    return `holds ${shown}, which nothing has filled in: write the value itself`
  }
  const [invisible] = /\p{Cf}|\u00a0/u.exec(text) ?? []
  if (invisible === undefined) return undefined
  const code = (invisible.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return `holds an invisible character (U+${code}): type the value anew`
}

/** Files of another form than YAML, or as no editor writes it on purpose: the first that matches is told, with its line. */
const foreignForms: readonly (readonly [form: RegExp, message: string])[] = [
  [/\0|\ufffd\ufffd/, 'is UTF-16, or no text: save it as UTF-8'],
  [/\r(?!\n)/, 'has lines that end with a carriage return alone: save it with line feeds'],
  [/^[ \t]*\u00a0/m, 'a no-break space in the indentation: YAML takes plain spaces only'],
  [/^[^#\n'"]*\{\{/m, 'a template ({{ ... }}) that nothing has filled in: render it before the start'],
  [/^kind:\s/m, 'a Kubernetes manifest: give the file that it holds below data, not the manifest'],
  [/^\s*\[[\w.]+\]\s*$/m, 'TOML; YAML is needed: write a section as "platform:", its keys indented below it'],
  [/^\s*\/\//m, 'a comment begins with #, not with //'],
]

/** What another form a file has, and the offset of its first sign. */
export function foreignForm(text: string): { message: string; at: number } | undefined {
  for (const [form, message] of foreignForms) {
    const found = form.exec(text)
    if (found !== null) return { message, at: found.index }
  }
  return undefined
}
