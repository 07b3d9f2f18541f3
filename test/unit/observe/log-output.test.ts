// A log without a reader: what waits is bounded, what is dropped is counted and reported.
import { expect, test } from 'vitest'
import { createLogOutput, type LogOutput } from '../../../src/observe/log/log-output.ts'

const mebibyte = 1_048_576

/** What the output reports, in order; it writes a notice where lines are taken again. */
function listenTo(output: LogOutput): (string | number)[] {
  const told: (string | number)[] = []
  output.listen({
    dropped: () => told.push('dropped'),
    resumed(lines) {
      told.push(lines)
      output.write('notice')
    },
  })
  return told
}

test('lines are dropped while a mebibyte waits, counted, and reported before the next one', () => {
  const stream = { writableLength: 0, written: [] as string[], write: (text: string) => stream.written.push(text) }
  const output = createLogOutput(stream)
  const told = listenTo(output)
  output.write('a')
  stream.writableLength = mebibyte
  output.write('b')
  stream.writableLength = mebibyte + 1
  output.write('c')
  stream.writableLength = mebibyte / 2 + 1
  output.write('d')
  expect(told).toEqual(['dropped', 'dropped'])
  stream.writableLength = mebibyte / 2
  output.write('e')
  expect(told).toEqual(['dropped', 'dropped', 2])
  expect(stream.written).toEqual(['a', 'b', 'notice', 'e'])
})

test('lines that the stream could not write, as on a full disk, are dropped lines too', () => {
  let isDiskFull = false
  const written: string[] = []
  const output = createLogOutput({
    write(text, done) {
      if (!isDiskFull) written.push(text)
      done(isDiskFull ? new Error('ENOSPC') : null)
    },
  })
  const told = listenTo(output)
  output.write('a')
  isDiskFull = true
  for (const line of ['b', 'c', 'd']) output.write(line)
  expect(told).toEqual(['dropped', 'dropped', 'dropped'])
  isDiskFull = false
  output.write('e')
  output.write('f')
  expect(told).toEqual(['dropped', 'dropped', 'dropped', 3])
  expect(written).toEqual(['a', 'e', 'notice', 'f'])
})

test('a stream in which nothing can wait loses nothing', () => {
  const written: string[] = []
  const output = createLogOutput({ write: (text) => written.push(text) })
  for (let n = 0; n < 1000; n += 1) output.write('x'.repeat(10_000))
  expect(written).toHaveLength(1000)
})
