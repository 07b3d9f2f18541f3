// A log without a reader: what waits is bounded, what is dropped is counted and reported. With a stream, and with a real pipe.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
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

test('a real pipe without a reader: the writer goes on, and little waits', async () => {
  const script = `
    import { createLogOutput } from ${JSON.stringify(join(import.meta.dirname, '../../../src/observe/log/log-output.ts'))}
    const output = createLogOutput(process.stdout)
    let [dropped, most] = [0, 0]
    output.listen({ dropped: () => { dropped += 1 }, resumed: () => undefined })
    for (let n = 0; n < 50; n += 1) {
      for (let line = 0; line < 1000; line += 1) output.write('x'.repeat(399) + '\\n')
      most = Math.max(most, process.stdout.writableLength)
      await new Promise((resolve) => setImmediate(resolve))
    }
    process.stderr.write(JSON.stringify({ dropped, most }))
    process.exit(0)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  await once(child.stderr, 'end')
  child.stdout.destroy()
  const { dropped, most } = JSON.parse(said) as { dropped: number; most: number }
  expect(most).toBeLessThanOrEqual(mebibyte + 400)
  // Of 50,000 lines, some thousands waited, and the pipe took some hundreds.
  expect(dropped).toBeGreaterThan(40_000)
})
