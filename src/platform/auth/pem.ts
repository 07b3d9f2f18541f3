// Finds PEM blocks in files and variables as they occur in practice, or names the content found instead. @see RFC 7468

export interface PemBlock {
  label: string
  /** Encrypted as PKCS#8 or in the older form. */
  encrypted: boolean
  /** The block alone, in strict form. */
  pem: string
}

/** The complete blocks of a text, in order, and what is wrong with the first incomplete block. */
export interface PemContent {
  blocks: PemBlock[]
  /** Completes a sentence that starts with the text's name. */
  damage: string | undefined
}

const line = /-----(BEGIN|END) ([A-Z0-9][A-Z0-9 ]{0,40})-----/g
const base64 = /^[A-Za-z0-9+/]+={0,2}$/
const cutOff = 'holds a PEM block that is cut off: its END line is missing'

/** The strict form of a block that was indented, put on one line, or has CRLF; undefined if it is damaged. */
function strict(label: string, content: string): PemBlock | undefined {
  const lines = content.split('\n').map((text) => text.trim())
  const headers = lines.filter((text) => text.includes(':'))
  const body = lines
    .filter((text) => !text.includes(':'))
    .join('')
    .replaceAll(/\s/g, '')
  if (!base64.test(body)) return undefined
  const head = headers.length === 0 ? '' : `${headers.join('\n')}\n\n`
  const wrapped = body.replaceAll(/.{64}(?=.)/g, '$&\n')
  const encrypted = label.startsWith('ENCRYPTED') || headers.some((header) => /^Proc-Type:.*ENCRYPTED/.test(header))
  return { label, encrypted, pem: `-----BEGIN ${label}-----\n${head}${wrapped}\n-----END ${label}-----\n` }
}

/**
 * Ignores text around the blocks (comments, bag attributes, a BOM, quotes); corrects CRLF, indentation, and line breaks written
 * as a literal `\n` with any number of backslashes.
 */
export function readPem(text: string): PemContent {
  const lines = text.replaceAll(/\\+/g, '\\').replaceAll(/(?:\\r)?\\n|\r\n?/g, '\n')
  const blocks: PemBlock[] = []
  const damages: string[] = []
  let begin: { label: string; bodyAt: number } | undefined
  for (const { 0: marker, 1: kind, 2: label = '', index } of lines.matchAll(line)) {
    if (kind === 'BEGIN') {
      if (begin !== undefined) damages.push(cutOff)
      begin = { label, bodyAt: index + marker.length }
    } else if (begin !== undefined) {
      const block = begin.label === label ? strict(label, lines.slice(begin.bodyAt, index)) : undefined
      if (block !== undefined) blocks.push(block)
      else if (begin.label === label) damages.push('holds a PEM block that is damaged: not all of it is Base64')
      else
        damages.push(`holds a PEM block that begins as "${begin.label}" and ends as "${label}": copy it again, whole`)
      begin = undefined
    }
  }
  if (begin !== undefined) damages.push(cutOff)
  return { blocks, damage: damages[0] }
}

/** Describes content without any PEM block; completes a sentence that starts with its name. */
export function whatElse(content: Buffer): string {
  if (content.length === 0) return 'is empty'
  if (content[0] === 0x30 && content.some((byte) => byte > 0x7f)) {
    return 'is binary (DER or PKCS#12); convert it to PEM (openssl pkey -inform DER, or openssl pkcs12 -nodes)'
  }
  return content.includes('-----BEGIN ') ? cutOff : 'holds no PEM block (-----BEGIN ...-----)'
}
