// The log that counts: what is written is told once by its level, and goes on unchanged.
import { expect, test } from 'vitest'
import { countedLevels, countedLog } from '../../../src/observe/counted-log.ts'
import type { Log, LogFields } from '../../../src/observe/log.ts'

test.each([
  ['trace', ['debug', 'info', 'warn', 'error']],
  ['debug', ['debug', 'info', 'warn', 'error']],
  ['info', ['info', 'warn', 'error']],
  ['warn', ['warn', 'error']],
  ['error', ['error']],
  ['fatal', []],
  ['silent', []],
] as const)('at %s it tells of what is written', (least, expected) => {
  const lines: [string, string, LogFields | undefined][] = []
  const note =
    (level: string): Log['info'] =>
    (message, fields) =>
      void lines.push([level, message, fields])
  const told: string[] = []
  const log = countedLog(
    { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
    least,
    (level) => told.push(level),
  )
  for (const level of countedLevels) log[level](`a ${level}`, { level })
  expect(told).toEqual(expected)
  // What is below the level is the log's own business.
  expect(lines).toEqual(countedLevels.map((level) => [level, `a ${level}`, { level }]))
})
