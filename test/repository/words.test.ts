// Plain English in comments, messages and documents: rates of words that readers stumble over, as low as in good projects.
import { describe, expect, test } from 'vitest'
import { filesIn, sentencesOf } from './texts.ts'

const vague = /\b(?:nobody|somebody|whoever|whatever)\b/gi
const telling = /\b(?:tells?|told)\b/gi
const opening = /^(?:What|Who|Whether|So many|Those|Nobody)\b/

/** Places by group: a good group must not hide a bad one. */
const groups: Readonly<Record<string, readonly string[]>> = {
  sandbox: ['sandbox'],
  source: ['src', 'tools'],
  tests: ['test'],
  documents: ['docs', 'config', 'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'],
}

function filesOf(places: readonly string[]): string[] {
  return places.flatMap((place) => (place.endsWith('.md') ? [place] : filesIn(place, ['.ts', '.md', '.yaml', '.json'])))
}

test('texts are comments, messages and prose', () => {
  const sentences = sentencesOf('test/repository/words.test.ts')
  expect(sentences).toContain('Plain English in comments, messages and documents:')
  expect(sentences).toContain('a good group must not hide a bad one.')
  expect(sentences).toContain('texts are comments, messages and prose')
  expect(sentencesOf('docs/README.md')).toContain('one section per alert')
})

describe.each(Object.entries(groups))('%s', (group, places) => {
  const sentences = filesOf(places).flatMap((file) => sentencesOf(file).map((sentence) => ({ file, sentence })))
  const words = sentences.reduce((sum, { sentence }) => sum + sentence.split(' ').length, 0)
  // Titles of tests are halves of sentences: many name what is given before what is expected.
  const share = group === 'tests' ? 3 : 1

  test.each<[name: string, pattern: RegExp, max: number, of: number]>([
    ['nobody, somebody, whoever, whatever: below 0.5 per 1,000 words', vague, 0.5, words / 1000],
    ['tell, tells, told: below 0.3 per 1,000 words', telling, 0.3, words / 1000],
    [
      `fewer than ${share} % begin with What, Who, Whether, So many, Those or Nobody`,
      opening,
      share,
      sentences.length / 100,
    ],
  ])('%s', (_name, pattern, max, of) => {
    const found = sentences.flatMap(({ file, sentence }) =>
      (sentence.match(pattern) ?? []).map(() => `${file}: ${sentence}`),
    )
    expect(words).toBeGreaterThan(3000)
    expect(found.length / of, found.join('\n')).toBeLessThan(max)
  })
})
