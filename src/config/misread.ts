// Detects texts that are unlikely to be meant literally: quotes as part of a value, placeholders, invisible characters.

/**
 * The likely problem of a value, as part of a sentence; undefined if there is none. Quotes a placeholder, but never a secret.
 */
export function misreadOf(text: string, { secret }: { secret: boolean }): string | undefined {
  if (/^(["'`])[^]*\1$/.test(text))
    return 'has quotes that are part of the value, as docker --env-file keeps them: write it without them'
  const [placeholder] = /\$\{\w[^}]*\}|\$\(\w+\)|\{\{.*\}\}|^<[^<>]+>$/.exec(text) ?? []
  if (placeholder !== undefined) {
    const shown = secret ? 'a placeholder such as ${NAME}' : `the placeholder ${placeholder.slice(0, 60)}`
    return `holds ${shown}, which was not filled in: write the value itself`
  }
  const [invisible] = /\p{Cf}|\u00a0/u.exec(text) ?? []
  if (invisible === undefined) return undefined
  const code = (invisible.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')
  return `holds an invisible character (U+${code}): type the value anew`
}

/** Files in another form than YAML, or with accidental characters: the first match is reported with its line. */
const foreignForms: readonly (readonly [form: RegExp, message: string])[] = [
  [/\0|\ufffd\ufffd/, 'is UTF-16, or no text: save it as UTF-8'],
  [/\r(?!\n)/, 'has lines that end with a carriage return alone: save it with line feeds'],
  [/^[ \t]*\u00a0/m, 'a no-break space in the indentation: YAML accepts only plain spaces'],
  [/^[^#\n'"]*\{\{/m, 'an unrendered template ({{ ... }}): render it before the start'],
  [/^kind:\s/m, 'a Kubernetes manifest: give the file below its data, not the manifest'],
  [/^\s*\[[\w.]+\]\s*$/m, 'TOML; YAML is needed: write a section as "platform:", its keys indented below it'],
  [/^\s*\/\//m, 'a comment begins with #, not with //'],
]

/** The other form of a file, and the offset of its first sign. */
export function foreignForm(text: string): { message: string; at: number } | undefined {
  for (const [form, message] of foreignForms) {
    const found = form.exec(text)
    if (found !== null) return { message, at: found.index }
  }
  return undefined
}
