// Plain English in comments, messages and documents: rates of words that readers stumble over, as low as in good projects.
import { describe, expect, test } from 'vitest'
import { filesIn, sentencesOf, textsOf } from './texts.ts'

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

test('a word to avoid would be found', () => {
  expect('Nobody was told what somebody said'.match(vague)).toHaveLength(2)
  expect('It tells what was told'.match(telling)).toHaveLength(2)
  expect('Who asks again').toMatch(opening)
  expect('Whoever asks').not.toMatch(opening)
})

test('texts are comments and messages', () => {
  const texts = textsOf('test/repository/words.test.ts').flatMap(sentencesOf)
  expect(texts).toContain('Plain English in comments, messages and documents:')
  expect(texts).toContain('a good group must not hide a bad one.')
  expect(texts).toContain('a word to avoid would be found')
  expect(textsOf('docs/README.md').flatMap(sentencesOf)).toContain('one section per alert')
})

describe.each(Object.entries(groups))('%s', (group, places) => {
  const sentences = filesOf(places).flatMap((file) =>
    textsOf(file).flatMap((text) => sentencesOf(text).map((sentence) => ({ file, sentence }))),
  )
  const words = sentences.reduce((sum, { sentence }) => sum + sentence.split(' ').length, 0)

  /** Each match, as its file and sentence. */
  function found(pattern: RegExp): string[] {
    return sentences.flatMap(({ file, sentence }) => (sentence.match(pattern) ?? []).map(() => `${file}: ${sentence}`))
  }

  test('there are texts', () => {
    expect(words).toBeGreaterThan(3000)
  })

  test.each([
    ['nobody, somebody, whoever, whatever', 0.5, vague],
    ['tell, tells, told', 0.3, telling],
  ])('%s: below %d per 1,000 words', (_words, most, pattern) => {
    const matches = found(pattern)
    expect((matches.length / words) * 1000, matches.join('\n')).toBeLessThan(most)
  })

  // Titles of tests are halves of sentences: many name what is given before what is expected.
  const share = group === 'tests' ? 3 : 1
  test(`fewer than ${share} % of the sentences begin with What, Who, Whether, So many, Those or Nobody`, () => {
    const matches = found(opening)
    expect((matches.length / sentences.length) * 100, matches.join('\n')).toBeLessThan(share)
  })
})
