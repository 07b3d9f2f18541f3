// The third quarter of the scenarios of simulation.test.ts.
import { testQuarter } from './seeds.ts'

testQuarter(3)
