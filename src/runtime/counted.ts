// Numbers of things as text: thousands separators, one and many. For people; used by every layer.

/** `7,000`, `0.5`. Without Intl, whose tables take 17 ms to load. */
export function count(value: number): string {
  const [whole = '', fraction] = String(Math.round(value * 10) / 10).split('.')
  const grouped = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ',')
  return fraction === undefined ? grouped : `${grouped}.${fraction}`
}

/** `1 record`, `7,000 deliveries`; a plural that does not end in `s` is given. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}
