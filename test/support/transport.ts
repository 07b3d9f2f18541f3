// The real transport for one test after the other, on a virtual clock, with the check that it leaves nothing behind.
import { afterEach, beforeEach, expect } from 'vitest'
import {
  createHttpTransport,
  TransportError,
  type HttpRequest,
  type HttpResponse,
  type HttpTransport,
  type HttpTransportOptions,
} from '../../src/platform/http/http.ts'
import type { OnRequest } from './raw-server.ts'
import { createVirtualClock, type VirtualClock } from './virtual-clock.ts'

export const timeoutMs = 10_000
export const maxBytes = 1_000
/** The beginning of a good response's head. */
export const json = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
/** A whole good response. */
export const ok = `${json}Content-Length: 2\r\n\r\n{}`

export interface TransportUnderTest {
  clock(): VirtualClock
  /** A GET with the time and size limits above, unless a test says otherwise. */
  request(url: URL, changes?: Partial<HttpRequest>): Promise<HttpResponse>
  /** Puts another transport in its place, on the same clock. */
  reopen(options: Omit<HttpTransportOptions, 'clock' | 'version'>): Promise<void>
  close(): Promise<void>
}

const version = '1.2.3'

/** Opens one before each test of the file, and closes it after it. */
export function useTransport(): TransportUnderTest {
  let clock: VirtualClock
  let http: HttpTransport

  beforeEach(() => {
    clock = createVirtualClock()
    http = createHttpTransport({ clock, version, connections: 4 })
  })

  afterEach(async () => {
    await http.close()
    // The deadline's timer ends with its exchange.
    expect(clock.sleepers()).toBe(0)
  })

  return {
    clock: () => clock,
    request: (url, changes = {}) =>
      http.transport({ method: 'GET', url, headers: {}, timeoutMs, maxBytes, ...changes }),
    async reopen(options) {
      await http.close()
      http = createHttpTransport({ clock, version, ...options })
    },
    close: () => http.close(),
  }
}

/** What a request failed with. */
export async function failureOf(answer: Promise<HttpResponse>): Promise<TransportError> {
  const error = await answer.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(TransportError)
  return error as TransportError
}

/** A server that writes these parts for each request, and leaves the connection open. */
export function says(...parts: (string | Buffer)[]): OnRequest {
  return (socket) => {
    for (const part of parts) socket.write(part)
  }
}
