// One request to the platform and its answer, as the parts of the sandbox see them.

/** `other` is what the platform does not have. */
export type Operation = 'token' | 'list' | 'retry' | 'other'

export interface SandboxRequest {
  operation: Operation
  method: string
  path: string
  query: URLSearchParams
  /** Names in lower case. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>
  body: string
  /** Of a retry: the id in the path, decoded. */
  webhookId: string | undefined
}

/** How the answer goes onto the wire; default: whole. */
export type Wire =
  | { kind: 'whole' }
  /** The connection is reset instead. */
  | { kind: 'reset' }
  /** Nothing is ever sent. */
  | { kind: 'hang' }
  /** The connection ends after this share of the announced body. */
  | { kind: 'cut'; share: number }
  | { kind: 'drip'; bytes: number; everyMs: number }

export interface Answer {
  status: number
  headers: Record<string, string>
  body: string
  wire: Wire
}

export function jsonAnswer(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    wire: { kind: 'whole' },
  }
}

export function textAnswer(status: number, body: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'text/plain', ...headers }, body, wire: { kind: 'whole' } }
}
