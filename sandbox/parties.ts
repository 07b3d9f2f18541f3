// Made-up people, companies and bank accounts for the payloads.
import type { Sequence } from './hash.ts'

const givenNames = [
  'Ada',
  'Bruno',
  'Carla',
  'Dov',
  'Élodie',
  'Farid',
  'Grażyna',
  'Hugo',
  'Ines',
  'Jörg',
  'Kaito',
  'Łucja',
  "D'Arcy",
] as const
const familyNames = [
  'Almeida',
  'Berg',
  'Ćirić',
  'Dubois',
  'Evans',
  'Fischer',
  'Großmann',
  "O'Neill",
  'Ivanova',
  'Jansen',
  'Kaya',
  'de la Cruz',
] as const
const companyNames = [
  'Nordlicht',
  'Blue Harbour',
  'Cedar & Sons',
  'Delta Freight',
  'Étoile',
  'Fjord Foods',
  'Granite',
  '山田商事',
] as const
const companyForms = ['Ltd', 'GmbH', 'SAS', 'UAB', 'B.V.', 'LLC'] as const
const streets = ['Main Street', 'Lindenallee', 'Rue du Port', 'Gedimino pr.', 'Keizersgracht', 'Hafenstraße'] as const
const cities = ['London', 'Berlin', 'Lyon', 'Vilnius', 'Amsterdam', 'Hamburg'] as const

/** Country, currency, and the shape of its bank account numbers: letters, then digits after the check digits. */
const countries = [
  { country: 'GB', currency: 'GBP', bank: 'MIDL', digits: 14, scheme: null },
  { country: 'DE', currency: 'EUR', bank: '', digits: 18, scheme: 'sepa' },
  { country: 'LT', currency: 'EUR', bank: '', digits: 16, scheme: 'sepa' },
  { country: 'NL', currency: 'EUR', bank: 'ABNA', digits: 10, scheme: 'sepa' },
  { country: 'PL', currency: 'PLN', bank: '', digits: 24, scheme: null },
] as const

export type Country = (typeof countries)[number]

export function country(random: Sequence): Country {
  return random.pick(countries)
}

/** A bank account with a valid IBAN. @see docs/platform-api.md "Payload", beneficiary.account */
export function bankAccount(random: Sequence, of: Country, holder: string): Record<string, unknown> {
  const number = random.digits(of.digits)
  const bic = `${of.bank === '' ? 'SNDB' : of.bank}${of.country}2X`
  return {
    iban: iban(of.country, `${of.bank}${number}`),
    alias: random.chance(0.2) ? `${holder} main` : null,
    country: of.country,
    bankName: random.chance(0.7) ? `${of.country} Sandbox Bank` : null,
    currency: of.currency,
    ledgerNumber: random.chance(0.5) ? random.digits(10) : null,
    routingCodes: random.chance(0.8) ? { bic } : null,
    accountNumber: of.country === 'GB' ? number.slice(6) : null,
    accountHolderName: holder,
  }
}

/** @see docs/platform-api.md "Payload", beneficiary */
export function beneficiary(random: Sequence, of: Country): Record<string, unknown> {
  const person = random.chance(0.4)
  const given = random.pick(givenNames)
  const family = random.pick(familyNames)
  const name = person ? `${given} ${family}` : company(random)
  const founded = date(random, 1950, 2020)
  return {
    title: name,
    fullName: name,
    account: bankAccount(random, of, name),
    address: {
      city: random.pick(cities),
      street: random.pick(streets),
      country: of.country,
      ...(random.chance(0.8) ? { postalCode: random.digits(5) } : {}),
      houseNumber: String(1 + random.below(200)),
    },
    identity: person
      ? {
          type: 'individual',
          country: of.country,
          identifications: [],
          givenName: given,
          familyName: family,
          birthDate: founded,
        }
      : {
          type: 'corporate',
          country: of.country,
          identifications: [],
          legalName: name,
          corporationType: 'limited',
          incorporationDate: founded,
        },
  }
}

export function company(random: Sequence): string {
  return `${random.pick(companyNames)} ${random.pick(companyForms)}`
}

function date(random: Sequence, fromYear: number, toYear: number): string {
  const year = fromYear + random.below(toYear - fromYear)
  const month = String(1 + random.below(12)).padStart(2, '0')
  return `${year}-${month}-${String(1 + random.below(28)).padStart(2, '0')}`
}

/** The IBAN of a national account number, with its check digits (ISO 13616, modulo 97). */
export function iban(countryCode: string, account: string): string {
  const check = 98 - remainder97(`${account}${countryCode}00`)
  return `${countryCode}${String(check).padStart(2, '0')}${account}`
}

/** The remainder by 97 of the digits that remain when each letter becomes its two-digit number (A is 10). */
export function remainder97(text: string): number {
  let remainder = 0
  for (const character of text) {
    const value = Number.parseInt(character, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder
}
