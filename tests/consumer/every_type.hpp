#pragma once

/// Whether calls on every type of numbers give what they must.
bool every_type();
