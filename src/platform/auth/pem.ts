// Finds PEM blocks in files and variables as they occur in practice, and names other content that is found instead. @see RFC 7468

export interface PemBlock {
  /** As in `-----BEGIN label-----`. */
  label: string
  /** Encrypted, in the PKCS#8 way or the older one. */
  encrypted: boolean
  /** The block alone, in strict form. */
  pem: string
}

const block = /-----BEGIN ([A-Z0-9][A-Z0-9 ]{0,40})-----([\s\S]*?)-----END \1-----/g
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Strict form from a block that was indented, put on one line, or has CRLF; undefined when it is damaged. */
function strict(label: string, content: string): PemBlock | undefined {
  const lines = content.split('\n').map((line) => line.trim())
  const headers = lines.filter((line) => line.includes(':'))
  const body = lines
    .filter((line) => !line.includes(':'))
    .join('')
    .replaceAll(/\s/g, '')
  if (!base64.test(body)) return undefined
  const head = headers.length === 0 ? '' : `${headers.join('\n')}\n\n`
  const wrapped = body.replaceAll(/.{64}(?=.)/g, '$&\n')
  const encrypted = label.startsWith('ENCRYPTED') || headers.some((header) => /^Proc-Type:.*ENCRYPTED/.test(header))
  return { label, encrypted, pem: `-----BEGIN ${label}-----\n${head}${wrapped}\n-----END ${label}-----\n` }
}

/**
 * The blocks of a text, in order. Text around them (comments, bag attributes, a BOM, quotes) is ignored; CRLF, indentation,
 * and line breaks written as a literal `\n` are corrected. A damaged block is `undefined`.
 */
export function pemBlocks(text: string): (PemBlock | undefined)[] {
  const lines = text.replaceAll(/\\r\\n|\\n|\r\n?/g, '\n')
  return [...lines.matchAll(block)].map(([, label = '', content = '']) => strict(label, content))
}

const others: readonly (readonly [RegExp, string])[] = [
  [/^\s*$/, 'is empty'],
  [/-----BEGIN /, 'holds a PEM block that is cut off: its END line is missing'],
  [/^PuTTY-User-Key-File/, 'holds a PuTTY key; export it in PEM with PuTTYgen (Conversions, Export OpenSSH key)'],
  [/^\s*(ssh-|ecdsa-)/, 'holds an SSH public key'],
  [/^\s*LS0tLS1CRUdJTi/, 'holds PEM that is encoded in Base64 once more; decode it (base64 -d)'],
  [/^\s*MII[A-Za-z0-9+/=\s]+$/, 'holds Base64 without its BEGIN and END lines; take the whole PEM file'],
  [/^\s*\{/, 'holds JSON; a PEM file is needed'],
]

/** Describes a content without any PEM block, as the end of a sentence that begins with its name. */
export function whatElse(content: Buffer): string {
  const first = content.readUInt16BE.bind(content)
  if (content.length > 1 && (first() === 0xfffe || first() === 0xfeff)) return 'holds UTF-16 text; save it as UTF-8'
  if (content[0] === 0x30 && content.some((byte) => byte === 0 || byte > 0x7f)) {
    return 'is binary (DER or PKCS#12); convert it to PEM (openssl pkey -inform DER, or openssl pkcs12 -nodes)'
  }
  const text = content.toString('utf8').replace(/^\uFEFF/, '')
  return others.find(([pattern]) => pattern.test(text))?.[1] ?? 'holds no PEM block (-----BEGIN ...-----)'
}
