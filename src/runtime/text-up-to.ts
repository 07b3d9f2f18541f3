// Reads the text of a body, up to a limit.

/** The text of a message's body; undefined if it is too large. Rejects if it is truncated. */
export async function textUpTo(maxBytes: number, body: AsyncIterable<unknown>): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
