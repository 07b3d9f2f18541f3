// The template of pages: its parts stay text.
import { expect, test } from 'vitest'
import { html } from '../../../src/ops/html.ts'

test('texts become text, in content and in attributes', () => {
  const text = `<script>alert("1")</script>'&amp;`
  const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;amp;'
  expect(html`<p title="${text}">${text}</p>`.markup).toBe(`<p title="${escaped}">${escaped}</p>`)
})

test('what would not be seen, or would show another text, is replaced', () => {
  const odd = ['\u0000', '\u001b', '\u0085', '\u200b', '\u202e', '\u2066', '\u2028', '\u2029', '\ufeff', '\ud800']
  expect(html`${odd.join('a')}`.markup).toBe(odd.map(() => '\ufffd').join('a'))
})

test('markup stays markup, lists are joined, nothing is nothing', () => {
  const items = ['a', '<b>'].map((item) => html`<li>${item}</li>`)
  expect(html`${items}`.markup).toBe('<li>a</li><li>&lt;b&gt;</li>')
  expect(html`${undefined}${null}${false}${0}${['x', html`<i>y</i>`]}`.markup).toBe('0x<i>y</i>')
})
