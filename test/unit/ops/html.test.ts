// The template of pages: its parts stay text.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { escapeHtml, html } from '../../../src/ops/html.ts'
import { anyCharacter } from '../../support/any-text.ts'

test('texts become text, in content and in attributes', () => {
  const text = `<script>alert("1")</script>'&amp;`
  const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;amp;'
  expect(html`<p title="${text}">${text}</p>`.markup).toBe(`<p title="${escaped}">${escaped}</p>`)
})

test('markup stays markup, lists are joined, nothing is nothing', () => {
  const items = ['a', '<b>'].map((item) => html`<li>${item}</li>`)
  expect(
    html`<ul>
      ${items}
    </ul>`.markup.replaceAll(/\s/g, ''),
  ).toBe('<ul><li>a</li><li>&lt;b&gt;</li></ul>')
  expect(html`${undefined}${null}${false}${0}${['x', html`<i>y</i>`]}`.markup).toBe('0x<i>y</i>')
})

test('an object that a stranger made is not taken for markup', () => {
  const parsed = JSON.parse('{"eventType":"<img src=x onerror=alert(1)>"}') as { eventType: string }
  expect(html`${parsed.eventType}`.markup).not.toContain('<')
})

describe('invisible characters', () => {
  test.each(['\u0000', '\u001b', '\u0085', '\u200b', '\u202e', '\u2066', '\u2028', '\ufeff', '\ud800'])(
    '%j',
    (text) => {
      expect(escapeHtml(`a${text}b`)).toBe('a\ufffdb')
    },
  )
})

test('no text gets out of its place', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      expect(escapeHtml(text)).not.toMatch(/[<>"'\p{Cc}\p{Cf}]/u)
      expect(escapeHtml(text)).not.toMatch(/&(?!amp;|lt;|gt;|quot;|#39;)/)
    }),
  )
})
