// URLs in the configuration: the accepted forms. A rejected URL is never called.
import { z } from 'zod/mini'
import type { Kind } from './kinds.ts'

/** True for http URLs on this machine: 127.0.0.0/8, ::1 and localhost. */
export function isLoopback(url: URL): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
}

/** A URL without its query, which may hold a token. */
export function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url)
  return origin + pathname
}

/** Required form of a key's URL. */
interface Form {
  example: string
  /** Accepted schemes, in words. */
  schemes: string
  /** True if it may have a query. */
  query: boolean
}

/** Why a text is not such a URL; undefined if it is one. Messages never repeat the text: it may hold a password. */
function refusal(text: string, form: Form): string | undefined {
  // URL() would silently drop or change these.
  if (/[\s\\\p{Cc}]/u.test(text)) return 'must be a URL without spaces, line breaks and backslashes'
  const { example, query } = form
  if (text.includes('#')) return 'must be a URL without fragment (#)'
  if (!query && text.includes('?')) return 'must be a URL without query (?)'
  const url = URL.parse(text)
  if (url === null) return `must be a URL such as ${example}`
  if (/^https?:\/\/[^/]*@/i.test(text)) return 'must be a URL without user name and password'
  return undefined
}

const api: Form = { example: 'https://api.example.com/v1', schemes: 'https://', query: false }
const health: Form = { example: 'http://receiver:8080/healthz', schemes: 'http:// or https://', query: true }

const withoutTrailingSlashes = (text: string): string => text.replace(/\/+$/, '')

function urlKind(normalize: (text: string) => string, form: Form): Kind<z.ZodMiniType<string, string>> {
  const error = `must be a URL that starts with ${form.schemes}, such as ${form.example}`
  const schema = z.pipe(
    z.string({ error }).check(z.regex(/^https?:\/\/[^/]/i, { error })),
    z.transform((text: string, { issues }) => {
      const message = refusal(text, form)
      if (message === undefined) return normalize(text)
      issues.push({ code: 'custom', message, input: text })
      return z.NEVER
    }),
  )
  return { schema, type: 'URL', fromText: (text) => text, shown: false }
}

/** A base URL with any path, normalized by URL(), without trailing slash. */
export function baseUrl(): Kind<z.ZodMiniType<string, string>> {
  return urlKind((text) => withoutTrailingSlashes(new URL(text).href), api)
}

/** A URL that the platform compares as text (the audience of assertions): unchanged except for a trailing slash. */
export function exactUrl(): Kind<z.ZodMiniType<string, string>> {
  return urlKind(withoutTrailingSlashes, api)
}

/** A health URL. No secret is sent there, so plain http is allowed. Path and query stay unchanged. */
export function healthUrl(): Kind<z.ZodMiniType<string, string>> {
  return urlKind((text) => new URL(text).href, health)
}
