// URLs in the configuration: the accepted forms. A rejected URL is never called.
import type { z } from 'zod/mini'
import { written, type Kind } from './kinds.ts'

/** True for http URLs on this machine: 127.0.0.0/8, ::1 and localhost. */
export function isLoopback(url: URL): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
}

/** A URL without its query, which may hold a token. */
export function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

const pattern = /^https?:\/\/[^/]/i

/** Why a text is not such a URL; undefined if it is one. Messages never repeat the text: it may hold a password. */
function refusalOf(text: unknown, example: string, hasQuery: boolean): string | undefined {
  if (typeof text !== 'string' || !pattern.test(text)) return undefined
  // URL() would silently drop or change these.
  if (/[\s\\\p{Cc}]/u.test(text)) return 'must be a URL without spaces, line breaks and backslashes'
  if (text.includes('#')) return 'must be a URL without fragment (#)'
  if (!hasQuery && text.includes('?')) return 'must be a URL without query (?)'
  if (!URL.canParse(text)) return `must be a URL such as ${example}`
  if (/^https?:\/\/[^/]*@/i.test(text)) return 'must be a URL without user name and password'
  return undefined
}

const withoutTrailingSlashes = (text: string): string => text.replace(/\/+$/, '')

/** `schemes`: the accepted ones, in words. */
function urlKind(
  normalize: (text: string) => string,
  { example = 'https://api.example.com/v1', schemes = 'https://', hasQuery = false } = {},
): Kind<z.ZodMiniType<string, string>> {
  const refusal = (text: unknown): string | undefined => refusalOf(text, example, hasQuery)
  return written({
    type: 'URL',
    must: `must be a URL that starts with ${schemes}, such as ${example}`,
    pattern,
    refusal,
    parse: (text) => (refusal(text) === undefined ? normalize(text) : undefined),
    shown: false,
  })
}

/** A base URL with any path, normalized by URL(), without trailing slash. */
export const baseUrl = urlKind((text) => withoutTrailingSlashes(new URL(text).href))

/** A URL that the platform compares as text (the audience of assertions): unchanged except for a trailing slash. */
export const exactUrl = urlKind(withoutTrailingSlashes)

/** A health URL. No secret is sent there, so plain http is allowed. Path and query stay unchanged. */
export const healthUrl = urlKind((text) => new URL(text).href, {
  example: 'http://receiver:8080/healthz',
  schemes: 'http:// or https://',
  hasQuery: true,
})
