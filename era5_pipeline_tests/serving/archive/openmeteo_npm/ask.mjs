// Asks the address that it is given with Open-Meteo's own client, and prints what the client understood, as JSON.
import { fetchWeatherApi } from 'openmeteo';

const [address, parameters] = process.argv.slice(2);

const section = found => found && {
  time: Number(found.time()),
  timeEnd: Number(found.timeEnd()),
  interval: found.interval(),
  variables: Array.from({ length: found.variablesLength() }, (_, index) => {
    const one = found.variables(index);
    return {
      variable: one.variable(),
      unit: one.unit(),
      altitude: one.altitude(),
      aggregation: one.aggregation(),
      depth: [one.depth(), one.depthTo()],
      values: one.valuesArray() && Array.from(one.valuesArray(), value => Number.isNaN(value) ? null : value),
      moments: Array.from({ length: one.valuesInt64Length() }, (_, number) => Number(one.valuesInt64(number))),
    };
  }),
};

try {
  const places = await fetchWeatherApi(address, JSON.parse(parameters), 1);
  console.log(JSON.stringify(places.map(place => ({
    latitude: place.latitude(),
    longitude: place.longitude(),
    offset: place.utcOffsetSeconds(),
    timezone: place.timezone(),
    hourly: section(place.hourly()),
    daily: section(place.daily()),
  }))));
} catch (error) {
  console.log(JSON.stringify({ reason: error.message }));
}
