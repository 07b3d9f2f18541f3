// A log without a reader: what waits is bounded, what is dropped is counted and reported. A slow reader: test/process/output.test.ts.
import { expect, test } from 'vitest'
import { createLogOutput } from '../../../src/observe/log/log-output.ts'

const mebibyte = 1_048_576

test('lines are dropped while a mebibyte waits, or the stream cannot write them; counted, and reported before the next one', () => {
  const told: (string | number)[] = []
  let isDiskFull = false
  const stream = {
    writableLength: 0,
    write(text: string, done: (error?: Error | null) => void) {
      if (!isDiskFull) told.push(text)
      done(isDiskFull ? new Error('ENOSPC') : null)
    },
  }
  const output = createLogOutput(stream)
  output.listen({
    dropped: () => told.push('dropped'),
    resumed(lines) {
      told.push(lines)
      output.write('notice')
    },
  })
  for (const [line, waiting] of [
    ['a', 0],
    ['b', mebibyte],
    ['c', mebibyte + 1],
    ['d', mebibyte / 2 + 1],
    ['e', mebibyte / 2],
  ] as const) {
    stream.writableLength = waiting
    output.write(line)
  }
  expect(told.splice(0)).toEqual(['a', 'b', 'dropped', 'dropped', 2, 'notice', 'e'])
  isDiskFull = true
  for (const line of ['f', 'g', 'h']) output.write(line)
  isDiskFull = false
  for (const line of ['i', 'j']) output.write(line)
  expect(told).toEqual(['dropped', 'dropped', 'dropped', 'i', 3, 'notice', 'j'])
})
