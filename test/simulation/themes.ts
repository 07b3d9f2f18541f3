// What a run of the simulation is mostly about.

/** Drawn with equal chance; one that stands here twice comes twice as often. */
export const themes = [
  'mixed',
  'mixed',
  'mixed',
  'calm',
  'dead',
  'faults',
  'ends',
  'narrow',
  'long-lists',
  'expiry',
  'crowded',
  'hanging',
  'identity',
  'gateway',
  'replicas',
] as const

/**
 * `narrow`: little of everything; `expiry`: a short window that records leave; `crowded`: a dead subscription of three
 * times the backlog's size in front of healthy ones; `hanging`: deliveries that take longer than a retry keeps its place;
 * `gateway`: what stands in front of the platform refuses some of the calls; `replicas`: lists that lag behind.
 */
export type Theme = (typeof themes)[number]
