// The order of the test files: those that take longest begin first, so that none of them is left alone at the end.
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Vitest learns durations as it runs. In a fresh clone it goes by the size of the files, and these are small. */
const longest = [
  'test/simulation/simulation.test.ts',
  'test/contract/recovery.test.ts',
  'test/process/ops.test.ts',
  'test/process/once.test.ts',
  'test/contract/listing.test.ts',
  'test/wire/canary.test.ts',
  'test/wire/canary-commands.test.ts',
  'test/wire/hostile.test.ts',
  'test/process/replicas.test.ts',
  'test/process/cli.test.ts',
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => longest.some((file) => moduleId.endsWith(file))
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}
